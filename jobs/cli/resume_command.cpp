#include "jobs/cli/resume_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "core/shell_word.hpp"

namespace cohort {
namespace {

/// The words that a process was started with; empty: they cannot be read.
std::vector<std::string> words_of(const std::string& process) {
    std::ifstream file("/proc/" + process + "/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) {
        words.push_back(word);
    }
    return words;
}

bool is_mpirun(const std::vector<std::string>& words) {
    constexpr std::array<std::string_view, 4> kNames{"mpirun", "mpiexec", "orterun", "prterun"};
    return !words.empty() &&
           std::ranges::find(kNames, std::filesystem::path(words.front()).filename().string()) !=
               kNames.end();
}

}  // namespace

std::string resume_command(int ranks) {
    std::vector<std::string> words = words_of(std::to_string(getppid()));
    if (!is_mpirun(words)) {
        words = words_of("self");
        if (ranks > 1) {  // another process has started this one in the place of mpirun
            const std::array<std::string, 3> mpirun{"mpirun", "-n", std::to_string(ranks)};
            words.insert(words.begin(), mpirun.begin(), mpirun.end());
        }
    }
    words = resuming(std::move(words));
    std::ranges::transform(words, words.begin(), shell_quoted);
    return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> resuming(std::vector<std::string> words) {
    std::erase_if(words, [](std::string_view word) {
        const std::string_view name = word.substr(0, word.find('='));
        return name == "--overwrite" || name == "--resume";
    });
    words.emplace_back("--resume");
    return words;
}

}  // namespace cohort
