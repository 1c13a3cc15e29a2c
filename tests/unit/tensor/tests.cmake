cohort_add_unit_tests(tensor LIBS cohort::tensor TOPICS arena flat_layout shape)
