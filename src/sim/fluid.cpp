#include "cohort/sim/fluid.hpp"
