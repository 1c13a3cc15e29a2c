#include "cohort/sched/lstm_model.hpp"

namespace cohort {}  // namespace cohort
