#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// A text as HTML and XML write it, also within quotes; control characters that XML does not have
/// become question marks.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace cohort
