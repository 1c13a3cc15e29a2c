#include "cohort/sched/predictor.hpp"

namespace cohort {}  // namespace cohort
