# Installs BUILD_DIR into a fresh prefix below WORK_DIR, then configures, builds and runs the
# project in SOURCE_DIR against it; the one in EXAMPLES/own_network is built only.
foreach(variable BUILD_DIR WORK_DIR SOURCE_DIR EXAMPLES GENERATOR BUILD_TYPE CXX_COMPILER)
  if(NOT DEFINED ${variable})
    message(FATAL_ERROR "run.cmake: ${variable} is not set")
  endif()
endforeach()

file(REMOVE_RECURSE ${WORK_DIR})
set(prefix ${WORK_DIR}/prefix)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${text}\nexit code ${status}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
function(build source folder)
  run(${CMAKE_COMMAND} -S ${source} -B ${folder} -G ${GENERATOR}
    -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
    -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_PREFIX_PATH=${prefix})
  run(${CMAKE_COMMAND} --build ${folder})
endfunction()
build(${SOURCE_DIR} ${WORK_DIR}/build)
build(${EXAMPLES}/own_network ${WORK_DIR}/own_network)
run(${WORK_DIR}/build/consumer)
# The program replaces readv and writev for itself (comm/base/dead_tcp_mask.cpp), never for users of
# the library.
execute_process(COMMAND nm --defined-only ${WORK_DIR}/build/consumer
  RESULT_VARIABLE status OUTPUT_VARIABLE symbols)
if(NOT status EQUAL 0 OR symbols MATCHES " (readv|writev)\n")
  message(FATAL_ERROR "a program that uses the library gets its readv or writev, or nm fails")
endif()
run(${prefix}/bin/cohort --version)
