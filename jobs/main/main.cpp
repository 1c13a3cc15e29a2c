#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "core/log.hpp"
#include "jobs/cli/command_line.hpp"

namespace {

/// Command line and config file are the same for all ranks of a host: one of them complains.
bool one_of_a_host() {
    return cohort::read_launch_env().local_rank == 0;
}

/// Another rank says why. mpirun ends all ranks when the first one leaves with a code: not before
/// that other one has spoken.
cohort::ExitCode leave_last(cohort::ExitCode code) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return code;
}

/// Logs what is wrong with this rank.
cohort::ExitCode complain(cohort::ExitCode code, const std::string& text) {
    cohort::log_error("rank {}: {}", cohort::read_launch_env().world_rank, text);
    return code;
}

/// Runs the program; the only place where errors become exit codes. Training adds the rank and
/// the step to the message of an error that leaves it.
cohort::ExitCode run(int argc, const char* const* argv) {
    cohort::CommandLine line;
    try {
        return line.run(argc, argv);
    } catch (const CLI::ParseError& error) {
        return one_of_a_host() ? line.report(error) : leave_last(cohort::ExitCode::kUsage);
    } catch (const cohort::UsageError& error) {
        if (!one_of_a_host()) {
            return leave_last(error.exit_code());
        }
        cohort::log_error("{}", error.what());
        return error.exit_code();
    } catch (const cohort::Error& error) {
        return *error.what() == '\0' ? leave_last(error.exit_code())
                                     : complain(error.exit_code(), error.what());
    } catch (const std::bad_alloc&) {
        return complain(cohort::ExitCode::kDevice,
                        "out of memory; try a smaller --batch or fewer ranks on this host");
    } catch (const std::filesystem::filesystem_error& error) {
        return complain(cohort::ExitCode::kInput,
                        fmt::format("[{}] cannot be used; got {}", error.path1().string(),
                                    error.code().message()));
    } catch (const std::system_error& error) {  // threads that could not be started
        return complain(
            cohort::ExitCode::kDevice,
            fmt::format("the system refused; got {}; try fewer --threads", error.what()));
    }
}

/// What was printed must have arrived: a full disk would otherwise pass for success.
cohort::ExitCode check_written(cohort::ExitCode code) {
    const bool flushed = std::fflush(stdout) == 0;
    const int error = errno;
    if (flushed && std::ferror(stdout) == 0) {
        return code;
    }
    cohort::log_error("[standard output] cannot be written: {}",
                      flushed ? "an earlier write failed" : cohort::errno_text(error));
    return code == cohort::ExitCode::kDone ? cohort::ExitCode::kInput : code;
}

}  // namespace

int main(int argc, char** argv) {
    // A full quota and a closed pipe are reported by the write that hits them.
    std::signal(SIGXFSZ, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    try {
        return static_cast<int>(check_written(run(argc, argv)));
    } catch (const std::exception& error) {
        cohort::log_error("internal error, please report it: {}", error.what());
    }
    return EXIT_FAILURE;
}
