#include "cohort/sim/simulation.hpp"
