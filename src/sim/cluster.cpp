#include "cohort/sim/cluster.hpp"
