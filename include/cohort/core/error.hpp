#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cohort {

/// Process exit codes. Only `jobs/` turns an error into one of them; library code throws.
enum class ExitCode : int {
    kDone = 0,
    kUsage = 2,      ///< wrong option or value on the command line or in a config file
    kInput = 3,      ///< a file is missing, unreadable, malformed or cannot be written
    kPeer = 4,       ///< a server, the coordinator or too many workers were lost
    kDevice = 5,     ///< the requested device is missing or failed
    kNumerical = 6,  ///< training diverged (non-finite loss or parameters)
    kRequeue = 75,   ///< stopped by a signal after a checkpoint; start again with --resume
};

/// Root of every error this library throws. The message reads
/// `[where] what happened; expected X, got Y; try Z`.
class Error : public std::runtime_error {
public:
    Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
    /// The exit code that a program should end with when this error reaches `main`.
    [[nodiscard]] ExitCode exit_code() const noexcept { return code_; }

private:
    ExitCode code_;
};

/// A value given by the user (option, builder argument) is not usable.
struct UsageError : Error {
    explicit UsageError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};
/// Shapes that do not fit together.
struct ShapeError : Error {
    explicit ShapeError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};
/// A file or data set cannot be read, written or trusted.
struct FileError : Error {
    explicit FileError(const std::string& message) : Error(ExitCode::kInput, message) {}
};
/// A device is missing, out of memory, or reported a failure.
struct DeviceError : Error {
    explicit DeviceError(const std::string& message) : Error(ExitCode::kDevice, message) {}
};
/// Another rank is lost or does not answer.
struct PeerError : Error {
    explicit PeerError(const std::string& message) : Error(ExitCode::kPeer, message) {}
};
/// Training produced numbers that cannot be used.
struct NumericalError : Error {
    explicit NumericalError(const std::string& message) : Error(ExitCode::kNumerical, message) {}
};

/// The parts of an error message; empty parts are left out.
struct ErrorText {
    std::string_view where;     ///< operation, file or option
    std::string_view what;      ///< what happened
    std::string_view expected;  ///< the valid value
    std::string_view got;       ///< the value found
    std::string_view hint;      ///< the next step for the user
};

/// Formats `[where] what; expected X, got Y; try Z`.
[[nodiscard]] std::string error_message(const ErrorText& text);

/// The system's text for an errno value.
[[nodiscard]] std::string errno_text(int error);

/// Throws `E` with a formatted message: `fail<FileError>({.where = path, .what = "..."})`.
template <class E>
[[noreturn]] void fail(const ErrorText& text) {
    throw E(error_message(text));
}

/// Throws std::logic_error: an internal invariant does not hold.
[[noreturn]] void broken_invariant(std::string_view what, const std::source_location& where);

/// Ends with std::logic_error when an internal invariant is broken; always on.
inline void check_invariant(bool holds, std::string_view what,
                            const std::source_location& where = std::source_location::current()) {
    if (!holds) {
        broken_invariant(what, where);
    }
}

}  // namespace cohort
