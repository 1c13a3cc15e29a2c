cohort_add_unit_tests(formats LIBS cohort::formats TOPICS network_text onnx onnx_refused
                      start_values)
# Write files that their reader refuses.
get_target_property(onnx_code cohort_formats INCLUDE_DIRECTORIES)
list(FILTER onnx_code INCLUDE REGEX "/onnx$")
foreach(topic onnx onnx_refused)
  target_include_directories(formats_${topic}_test SYSTEM PRIVATE ${onnx_code})
  target_link_libraries(formats_${topic}_test PRIVATE protobuf::libprotobuf-lite)
endforeach()
