cohort_add_unit_tests(comm LIBS cohort::comm TOPICS alone card_share leftovers operations rank_map ring succession)
