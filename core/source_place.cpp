#include "core/source_place.hpp"

#include <string_view>

namespace cohort {

std::string source_place(const std::source_location& where) {
    const std::string_view path = where.file_name();
    return std::string(path.substr(path.find_last_of('/') + 1)) + ":" +
           std::to_string(where.line());
}

}  // namespace cohort
