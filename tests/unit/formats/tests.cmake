cohort_add_unit_tests(formats LIBS cohort::formats TOPICS network_text onnx start_values)
# Writes files that its reader refuses.
get_target_property(onnx_code cohort_formats INCLUDE_DIRECTORIES)
list(FILTER onnx_code INCLUDE REGEX "/onnx$")
target_include_directories(formats_onnx_test SYSTEM PRIVATE ${onnx_code})
target_link_libraries(formats_onnx_test PRIVATE protobuf::libprotobuf-lite)
