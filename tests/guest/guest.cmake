# One program per test, called with the path of viaduct; 6 boots in all, but for those labelled `full`.
function(viaduct_guest_test name)
  add_test(NAME guest.${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${name}.sh $<TARGET_FILE:viaduct>)
  set_tests_properties(guest.${name} PROPERTIES LABELS "guest;${ARGN}" TIMEOUT 300 RUN_SERIAL ON
                                                SKIP_RETURN_CODE 77)
endfunction()

if(TARGET viaduct)
  viaduct_guest_test(boot)
  viaduct_guest_test(io)
  viaduct_guest_test(reboot)
  viaduct_guest_test(rebind)
  viaduct_guest_test(packed)
  viaduct_guest_test(map full)
  viaduct_guest_test(kernel61 full)
  viaduct_guest_test(peer full)
  set_tests_properties(guest.map PROPERTIES TIMEOUT 1200) # four boots
  set_tests_properties(guest.kernel61 PROPERTIES TIMEOUT 5000)
endif()
