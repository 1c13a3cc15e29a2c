#pragma once

#include <string>

#include "cohort/train/events.hpp"
#include "cohort/train/options.hpp"

namespace cohort {

/// Records the run in a file outside --out. An older file stays until there is a new one:
/// --overwrite replaces it, otherwise it is renamed to FILE.1, or the next number, like the
/// recording of the part before a resume.
class RecordHook : public TrainHook {
public:
    /// @param option  names the file, which is `path` of the options  @param what  is recorded
    RecordHook(const char* option, std::string TrainOptions::*path, const char* what)
        : option_(option), path_of_(path), what_(what) {}

    /// Errors: UsageError when the file exists without --resume or --overwrite; FileError when it
    /// cannot be written: both end the run at its start.
    void on_start(TrainControl& run) override;
    void on_end(TrainControl& run, StopReason /*reason*/) final { save(run); }
    void on_failure(TrainControl& run) final { save(run); }

protected:
    [[nodiscard]] virtual bool any() const = 0;
    /// Errors: FileError.
    virtual void write(const std::string& path, const TrainOptions& options) = 0;
    /// An older file gets another name, unless it is to be replaced. Errors: FileError.
    /// @return the path of the new one
    const std::string& make_way();

private:
    void save(const TrainControl& run);

    const char* option_;
    std::string TrainOptions::*path_of_;
    const char* what_;
    std::string path_;   ///< empty: the run has not started
    bool keep_ = false;  ///< an older file is kept under another name
};

}  // namespace cohort
