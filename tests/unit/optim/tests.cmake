cohort_add_unit_tests(optim LIBS cohort::optim TOPICS adamw look_ahead range schedule sgd vector_math)
