#include "earlier_file.hpp"

#include <filesystem>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"

namespace cohort {

void keep_earlier(const std::string& file, std::string_view what) {
    std::error_code error;
    if (!std::filesystem::exists(file, error)) {
        return;
    }
    int number = 1;
    while (std::filesystem::exists(file + "." + std::to_string(number), error)) {
        ++number;
    }
    const std::string name = file + "." + std::to_string(number);
    std::filesystem::rename(file, name, error);
    if (error) {
        fail<FileError>({.where = name, .what = "cannot be made", .got = error.message()});
    }
    log_info("{} of the run before it was resumed is now {}", what, name);
}

}  // namespace cohort
