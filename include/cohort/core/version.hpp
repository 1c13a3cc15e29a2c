#pragma once

#include <string_view>

namespace cohort {

/// "0.1.0"
[[nodiscard]] std::string_view version() noexcept;
/// Short commit id of the source, "-dirty" appended when it had local changes.
[[nodiscard]] std::string_view revision() noexcept;
/// "Release", "Debug", ...
[[nodiscard]] std::string_view build_type() noexcept;
/// With its version and the options that it was given: "GNU 12.2.0, -O3 -DNDEBUG"
[[nodiscard]] std::string_view compiler() noexcept;

}  // namespace cohort
