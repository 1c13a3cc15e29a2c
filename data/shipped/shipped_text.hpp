#pragma once

#include <string_view>

namespace cohort {

/// A file of data/, as it was when the program was built.
struct ShippedText {
    std::string_view name;  ///< of the file, without its ending
    std::string_view text;
};

}  // namespace cohort
