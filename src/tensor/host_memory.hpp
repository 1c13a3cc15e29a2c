#pragma once

#include <cstdint>
#include <string_view>

namespace cohort {

/// Checks that the host has this much memory: Linux grants more memory than exists and kills
/// processes that use it. Errors: OutOfMemory with the requested and the available bytes.
void check_host_memory(std::uint64_t bytes, std::string_view where, std::string_view hint);

}  // namespace cohort
