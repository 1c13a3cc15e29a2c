cohort_add_unit_tests(fleet LIBS cohort::fleet fmt::fmt TOPICS job_room real_room)
