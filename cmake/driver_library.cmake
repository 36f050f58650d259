# The driver end as a library to link against: one archive, the headers of include/viaduct, a CMake package and a
# pkg-config file.  All of it can be moved to another prefix.
#
# The archive holds one object, linked from the layers that src/client needs and from no more.  Linking comes with
# link-time optimisation (preset release), so that whoever uses the archive needs neither clang nor lld.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# A consumer's program would have to be built with the same sanitizer, and with clang.
if(VIADUCT_SANITIZE)
  return()
endif()

set(driver_library ${CMAKE_BINARY_DIR}/lib/libviaduct-driver.a)
set(driver_object ${CMAKE_BINARY_DIR}/lib/viaduct-driver.o)
set(layers client driver vhost rt fuse virtio topology base)
list(TRANSFORM layers PREPEND viaduct_)
list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE archives)
list(POP_FRONT archives client_archive)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
add_custom_command(
  OUTPUT ${driver_library}
  COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -fuse-ld=lld -Wl,--whole-archive ${client_archive} -Wl,--no-whole-archive
          ${archives} -o ${driver_object}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${driver_library}
  COMMAND ${CMAKE_AR} qcs ${driver_library} ${driver_object}
  DEPENDS ${layers}
  VERBATIM)
add_custom_target(viaduct_driver_library ALL DEPENDS ${driver_library})

install(FILES ${driver_library} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT driver)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/viaduct DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT driver
        FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/viaduct)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/viaduct-config.cmake.in ${CMAKE_BINARY_DIR}/viaduct-config.cmake
                              INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
# Before 1.0 a new minor version may change what is public.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/viaduct-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/viaduct-config.cmake ${CMAKE_BINARY_DIR}/viaduct-config-version.cmake
        DESTINATION ${package_dir} COMPONENT driver)

# From the folder of the .pc file to the prefix.
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(${CMAKE_SOURCE_DIR}/cmake/viaduct-driver.pc.in ${CMAKE_BINARY_DIR}/viaduct-driver.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/viaduct-driver.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT driver)
