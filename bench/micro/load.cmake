add_executable(viaduct-load ${CMAKE_CURRENT_LIST_DIR}/load_main.cc ${CMAKE_CURRENT_LIST_DIR}/load_options.cc
               ${CMAKE_CURRENT_LIST_DIR}/load_report.cc ${CMAKE_CURRENT_LIST_DIR}/bare_call.cc
               ${CMAKE_CURRENT_LIST_DIR}/server_cpu.cc)
target_link_libraries(viaduct-load PRIVATE viaduct_driver)
