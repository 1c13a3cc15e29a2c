#include "cohort/sim/event_queue.hpp"
