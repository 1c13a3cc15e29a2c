#include "cohort/sim/trace.hpp"
