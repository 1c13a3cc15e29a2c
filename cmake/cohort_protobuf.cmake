# cohort_protobuf(TARGET ROOT NAME): the target gets what protoc makes of ROOT/NAME.proto, which its
# sources include as "NAME.pb.h". Such code is compiled without the project's warnings. The target
# cohort_protobuf_code makes all of it.
function(cohort_protobuf target root name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/protobuf)
  set(files ${folder}/${name}.pb.cc ${folder}/${name}.pb.h)
  add_custom_command(OUTPUT ${files}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND protobuf::protoc --proto_path=${root} --cpp_out=${folder} ${root}/${name}.proto
    DEPENDS ${root}/${name}.proto VERBATIM)
  add_custom_target(${target}_protobuf_code DEPENDS ${files})
  add_dependencies(${target} ${target}_protobuf_code)
  if(NOT TARGET cohort_protobuf_code)
    add_custom_target(cohort_protobuf_code)
  endif()
  add_dependencies(cohort_protobuf_code ${target}_protobuf_code)
  target_sources(${target} PRIVATE ${files})
  set_source_files_properties(${files} PROPERTIES
    COMPILE_OPTIONS -w SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(${target} SYSTEM PRIVATE ${folder})
endfunction()
