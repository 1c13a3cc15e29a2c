#include "cohort/core/load_probe.hpp"

namespace cohort {}  // namespace cohort
