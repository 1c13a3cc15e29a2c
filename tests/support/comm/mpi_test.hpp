#pragma once

#include <gtest/gtest.h>

#include "cohort/comm/world.hpp"

namespace cohort {

/// The world of a test program that cohort_add_mpi_test declares: all ranks run the same tests in
/// step, a test fails if it fails on any rank. A rank that leaves a test early makes the others
/// wait in the next collective until the stall limit (10 s) ends the job.
[[nodiscard]] World& test_world();

}  // namespace cohort
