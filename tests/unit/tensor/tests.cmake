cohort_add_unit_tests(tensor LIBS cohort::tensor TOPICS arena cpu_isa flat_layout shape)
