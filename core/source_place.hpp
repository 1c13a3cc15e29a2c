#pragma once

#include <source_location>
#include <string>

namespace cohort {

/// "ring_shared.cpp:31", for messages: the folders in front are the builder's, not the reader's.
[[nodiscard]] std::string source_place(const std::source_location& where);

}  // namespace cohort
