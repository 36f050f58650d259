# Installs manual pages, completions, the helper of mount(8), and the file through which managers of virtual machines
# find viaductd.
include(GNUInstallDirs)

file(GLOB manual_pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/man/*.1)
install(FILES ${manual_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

set(bash_completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_SOURCE_DIR}/completions/viaduct.bash DESTINATION ${bash_completions} RENAME viaduct)
install(FILES ${CMAKE_SOURCE_DIR}/completions/viaduct.bash DESTINATION ${bash_completions} RENAME viaductd)
install(FILES ${CMAKE_SOURCE_DIR}/completions/_viaduct DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

# Made while installing: `cmake --install --prefix` may name another place than the build did.
install(CODE "set(viaductd \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/viaductd\")
configure_file(\"${CMAKE_SOURCE_DIR}/data/10-viaductd.json.in\" \"${CMAKE_BINARY_DIR}/10-viaductd.json\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/10-viaductd.json DESTINATION ${CMAKE_INSTALL_DATADIR}/qemu/vhost-user)

# mount(8) looks for it in /sbin.
install(CODE "set(sbin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SBINDIR}\")
file(MAKE_DIRECTORY \"\${sbin}\")
file(CREATE_LINK ../${CMAKE_INSTALL_BINDIR}/viaduct \"\${sbin}/mount.fuse.viaduct\" SYMBOLIC)")
