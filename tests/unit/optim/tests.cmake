foreach(topic adamw range schedule sgd vector_math)
  cohort_add_unit_test(NAME optim_${topic}_test SOURCES unit/optim/${topic}_test.cpp
    LIBS cohort::optim)
endforeach()
