# Run by hand: its arguments are a dataset, a model and a number of threads.
add_executable(learner_bench bench/learner_bench.cpp)
target_link_libraries(learner_bench PRIVATE cohort::sim fmt::fmt cohort_build_settings)
set_target_properties(learner_bench PROPERTIES CXX_EXTENSIONS OFF)
