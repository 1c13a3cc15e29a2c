// with_level LEVEL PROGRAM [ARGUMENT...]: a program whose oneDNN has only the kernels for a level
// of instructions (DNNL_MAX_CPU_ISA). Exits with 77, which ctest calls "Skipped", where the
// processor lacks that level or has none beyond it: the same kernels are tested elsewhere.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cohort/tensor/device.hpp"

namespace {

constexpr int kSkipped = 77;
constexpr int kFailed = 127;
constexpr const char* kVariable = "ONEDNN_MAX_CPU_ISA";  // goes before DNNL_MAX_CPU_ISA

void limit_to(const std::string& level) {
    unsetenv("DNNL_MAX_CPU_ISA");
    level.empty() ? unsetenv(kVariable) : setenv(kVariable, level.c_str(), 1);
}

/// What oneDNN uses when it is told `level`, or nothing where that is empty. Of a child: a process
/// asks its environment once.
std::string used_at(const std::string& level) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) {
        return {};
    }
    const pid_t child = fork();
    if (child == 0) {
        limit_to(level);
        const std::string word = cohort::cpu_isa();
        const bool sent =
            write(ends[1], word.data(), word.size()) == static_cast<ssize_t>(word.size());
        _exit(sent ? 0 : kFailed);
    }
    close(ends[1]);
    std::array<char, 64> word{};
    const ssize_t count = read(ends[0], word.data(), word.size());
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return {word.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) {
        std::fputs("with_level LEVEL PROGRAM [ARGUMENT...]\n", stderr);
        return kFailed;
    }
    const std::string level = arguments[1];
    std::string word = level;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::string all = used_at({});
    const std::string used = used_at(level);
    if (used != word) {
        std::printf("Skipped: no processor with %s: oneDNN uses %s\n", level.c_str(), used.c_str());
        return kSkipped;
    }
    if (used == all) {
        std::printf("Skipped: %s is all that this processor has: tested without a level\n",
                    level.c_str());
        return kSkipped;
    }
    limit_to(level);
    execvp(arguments[2], arguments + 2);
    std::perror(arguments[2]);
    return kFailed;
}
