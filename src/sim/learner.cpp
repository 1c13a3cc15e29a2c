#include "cohort/sim/learner.hpp"
