#include "jobs/main/program.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/log.hpp"
#include "jobs/cli/command_line.hpp"
#include "jobs/commands/commands.hpp"

namespace cohort {
namespace {

/// Command line and config file are the same for all ranks of a host: one of them complains.
bool one_of_a_host() {
    return read_launch_env().local_rank == 0;
}

/// Another rank says why. mpirun ends all ranks when the first one leaves with a code: not before
/// that other one has spoken.
ExitCode leave_last(ExitCode code) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return code;
}

/// Logs what is wrong with this rank.
ExitCode complain(ExitCode code, const std::string& text) {
    log_error("rank {}: {}", read_launch_env().world_rank, text);
    return code;
}

void add_all_commands(const CommandGroup& all) {
    for (const auto add :
         {add_train_command, add_simulate_command, add_fleet_command, add_eval_command,
          add_export_command, add_generate_command, add_import_command, add_sweep_command,
          add_report_command, add_info_command, add_ctl_command, add_top_command,
          add_profile_command, add_chooser_commands, add_predictor_commands, add_trace_commands,
          add_bench_commands}) {
        add(all);
    }
}

/// The only place where errors become exit codes. Training adds the rank and the step to the
/// message of an error that leaves it.
ExitCode run(int argc, const char* const* argv) {
    CommandLine line(add_all_commands);
    try {
        return line.run(argc, argv);
    } catch (const CLI::ParseError& error) {
        return one_of_a_host() ? line.report(error) : leave_last(ExitCode::kUsage);
    } catch (const UsageError& error) {
        if (!one_of_a_host()) {
            return leave_last(error.exit_code());
        }
        log_error("{}", error.what());
        return error.exit_code();
    } catch (const Error& error) {
        return *error.what() == '\0' ? leave_last(error.exit_code())
                                     : complain(error.exit_code(), error.what());
    } catch (const std::bad_alloc&) {
        return complain(ExitCode::kDevice,
                        "out of memory; try a smaller --batch or fewer ranks on this host");
    } catch (const std::filesystem::filesystem_error& error) {
        return complain(ExitCode::kInput,
                        fmt::format("[{}] cannot be used; got {}", error.path1().string(),
                                    error.code().message()));
    } catch (const std::system_error& error) {  // threads that could not be started
        return complain(
            ExitCode::kDevice,
            fmt::format("the system refused; got {}; try fewer --threads", error.what()));
    }
}

/// What was printed must have arrived: a full disk would otherwise pass for success.
ExitCode check_written(ExitCode code) {
    const bool flushed = std::fflush(stdout) == 0;
    const int error = errno;
    if (flushed && std::ferror(stdout) == 0) {
        return code;
    }
    log_error("[standard output] cannot be written: {}",
              flushed ? "an earlier write failed" : errno_text(error));
    return code == ExitCode::kDone ? ExitCode::kInput : code;
}

std::terminate_handler end_by_default = nullptr;

/// Memory may end where nothing can be thrown: in destructors and in threads of libraries.
[[noreturn]] void end_without_memory() {
    try {
        if (const std::exception_ptr error = std::current_exception()) {
            std::rethrow_exception(error);
        }
    } catch (const std::bad_alloc&) {
        constexpr std::string_view kText = "error: out of memory\n";
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
        ::_exit(static_cast<int>(ExitCode::kDevice));
    } catch (...) {
    }
    end_by_default();
    std::abort();
}

}  // namespace

int run_program(int argc, const char* const* argv) {
    end_by_default = std::set_terminate(end_without_memory);
    // A full quota and a closed pipe are reported by the write that hits them.
    std::signal(SIGXFSZ, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    try {
        return static_cast<int>(check_written(run(argc, argv)));
    } catch (const std::exception& error) {
        log_error("internal error, please report it: {}", error.what());
    }
    return EXIT_FAILURE;
}

}  // namespace cohort
