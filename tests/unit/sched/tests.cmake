cohort_add_unit_tests(sched LIBS cohort::sched fmt::fmt TOPICS
  cost/efficiency cost/timing
  engine/drops engine/engine_lag engine/engine_membership engine/engine_schedule engine/quorum
  engine/rules engine/sums
  fleet/making_room fleet/placement
  modes/adaptive modes/choosing modes/modes modes/overdue modes/own_times modes/policy
  modes/policy_star modes/star_rules
  plan/plan plan/push_tree plan/ring_rules
  servers/shard_balancer servers/shard_shares
  predict/lstm predict/predictor_scores predict/predictors
  telemetry/straggler_news telemetry/stragglers telemetry/telemetry)
cohort_add_unit_test(NAME sched_engine_random_test
  SOURCES unit/sched/engine/engine_random_test.cpp support/sched/random_run.cpp
  LIBS cohort::sched fmt::fmt)
