cohort_add_unit_tests(networks LIBS cohort::networks nlohmann_json::nlohmann_json
  TOPICS network_text onnx onnx_notes onnx_refused start_values)
# Write files that their reader refuses.
get_target_property(protobuf_code cohort_networks INCLUDE_DIRECTORIES)
list(FILTER protobuf_code INCLUDE REGEX "/protobuf$")
foreach(topic onnx onnx_notes onnx_refused)
  target_include_directories(networks_${topic}_test SYSTEM PRIVATE ${protobuf_code})
  target_link_libraries(networks_${topic}_test PRIVATE protobuf::libprotobuf-lite)
endforeach()
