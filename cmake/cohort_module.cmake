# cohort_module(NAME core SOURCES a.cpp ... [PUBLIC targets...] [PRIVATE targets...])
#
# One static library `cohort::NAME` per module, with the project's warnings, language level and
# sanitizers. Dependencies between modules are declared here and checked against the include
# directives by the ctest entry `include_directions`.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)  # for clang-tidy
include(cohort_warnings)

add_library(cohort_build_settings INTERFACE)
target_compile_features(cohort_build_settings INTERFACE cxx_std_20)
# Headers that are not public are named by their way from here: "comm/base/rank_map.hpp",
# "train/server/server_shard.hpp".
target_include_directories(cohort_build_settings INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
# -Wno-restrict: GCC 12 reports `"x" + std::string` as overlapping memory (GCC bug 105651).
set(cohort_warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND cohort_warnings -Wno-restrict)
endif()
if(COHORT_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Sources that are compiled together are no headers, and not each other's surroundings.
  list(APPEND cohort_warnings -Wno-shadow -Wshadow=local -Wno-subobject-linkage)
endif()
cohort_warnings_are_errors(are_errors ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION})
if(are_errors)
  list(APPEND cohort_warnings -Werror)
elseif(COHORT_WERROR)
  message(STATUS "Warnings are no errors: ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} is not CI's compiler")
endif()
target_compile_options(cohort_build_settings INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:${cohort_warnings}>")
if(COHORT_SANITIZE)
  target_compile_options(cohort_build_settings INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${COHORT_SANITIZE};-fno-omit-frame-pointer>")
  target_link_options(cohort_build_settings INTERFACE -fsanitize=${COHORT_SANITIZE})
endif()

# cohort_compile_together(TARGET): with COHORT_UNITY, sources of a target are compiled so many at a
# time. Names in their unnamed namespaces must differ then. Sources with options of their own (the
# loops that want -O3) stay alone, and so do the CUDA backend's, with the toolkit's headers.
function(cohort_compile_together target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "(^|/)(cuda/.*|nccl[^/]*)[.]cpp$")
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${COHORT_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# cohort_without_loops(TARGET): nothing in it is computed often enough to gain from more than -O1
# (virtual runs of 64 workers without training take as long). GCC 12 takes 27 s for the largest part
# of the program's commands with -O1 and 36 s with -O2.
function(cohort_without_loops target)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
endfunction()

function(cohort_module)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target cohort_${ARG_NAME})
  list(SORT ARG_SOURCES)  # those of one folder are compiled together
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(cohort::${ARG_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${ARG_NAME} POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  cohort_compile_together(${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC}
    PRIVATE $<BUILD_INTERFACE:cohort_build_settings> ${ARG_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY COHORT_MODULES ${target})
endfunction()
