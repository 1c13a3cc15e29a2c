# Checks of the source tree itself.
set(tools ${CMAKE_CURRENT_SOURCE_DIR}/tools)

add_test(NAME include_directions
  COMMAND Python3::Interpreter ${tools}/check_includes.py ${PROJECT_SOURCE_DIR})
add_test(NAME include_directions_self_test
  COMMAND Python3::Interpreter ${tools}/check_includes.py --self-test)
add_test(NAME format COMMAND Python3::Interpreter ${tools}/check_format.py ${PROJECT_SOURCE_DIR})
add_test(NAME script_syntax
  COMMAND Python3::Interpreter ${tools}/check_scripts.py ${PROJECT_SOURCE_DIR})

foreach(check include_directions include_directions_self_test format script_syntax)
  cohort_test_properties(${check})
endforeach()
