cohort_add_unit_tests(records LIBS cohort::records nlohmann_json::nlohmann_json
  TOPICS event_file prometheus_text timeline)
