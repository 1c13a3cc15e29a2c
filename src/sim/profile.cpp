#include "cohort/sim/profile.hpp"
