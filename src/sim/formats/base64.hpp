#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// RFC 4648, section 4, in lines of 96 characters.
[[nodiscard]] std::string to_base64(std::span<const std::byte> bytes);
/// Line ends are skipped. @return none: it is not base64
[[nodiscard]] std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace cohort
