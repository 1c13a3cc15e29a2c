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
    std::vector<std::string> words =
        resuming(starting(words_of(std::to_string(getppid())), words_of("self"), ranks));
    std::ranges::transform(words, words.begin(), shell_quoted);
    return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> starting(std::vector<std::string> parent, std::vector<std::string> own,
                                  int ranks) {
    if (is_mpirun(parent)) {
        return parent;
    }
    // Slurm's daemon is called "slurmstepd: [JOB.STEP]"; srun, whose words it does not know, may
    // run on another node.
    const bool by_srun = !parent.empty() && parent.front().starts_with("slurmstepd");
    if (ranks > 1 || by_srun) {
        const std::array<std::string, 3> launcher{by_srun ? "srun" : "mpirun", "-n",
                                                  std::to_string(ranks)};
        own.insert(own.begin(), launcher.begin(), launcher.end());
    }
    return own;
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
