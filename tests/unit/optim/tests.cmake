cohort_add_unit_tests(optim LIBS cohort::optim TOPICS adamw range schedule sgd vector_math)
