#pragma once

#include <cstdint>
#include <string_view>

namespace cohort {

/// Linux hands out more memory than there is and ends who uses it: large amounts are asked about
/// first. Errors: OutOfMemory with what is wanted and what the host has.
void check_host_memory(std::uint64_t bytes, std::string_view where, std::string_view hint);

}  // namespace cohort
