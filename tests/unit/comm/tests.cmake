cohort_add_unit_tests(comm LIBS cohort::comm TOPICS alone leftovers operations rank_map ring)
