if(benchmark_FOUND)
  add_executable(bench_virtio_queue micro/virtio_queue_bench.cc)
  target_link_libraries(bench_virtio_queue PRIVATE viaduct_virtio benchmark::benchmark_main)
endif()
