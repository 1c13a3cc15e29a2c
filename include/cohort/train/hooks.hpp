#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cohort/train/events.hpp"

namespace cohort {

/// Ends the run with NumericalError when 5 batches in a row, or 20 of the last 100, had to be
/// dropped because loss or gradient was not finite; warns about each.
[[nodiscard]] std::unique_ptr<TrainHook> make_nan_guard_hook();

/// Ends the run once the test accuracy reaches `target_accuracy`, or the test loss `target_loss`,
/// and notes the training time.
[[nodiscard]] std::unique_ptr<TrainHook> make_target_hook();

/// Ends the run when `stop_requested` says so.
[[nodiscard]] std::unique_ptr<TrainHook> make_stop_hook(std::function<bool()> stop_requested);

/// Writes JSON lines: `train` every `log_every_s` and before each evaluation, `dropped`,
/// `evaluation`, `checkpoint`.
[[nodiscard]] std::unique_ptr<TrainHook> make_metrics_hook();

/// Writes `record_trace`, the workers' own times as a trace: at the end, after a signal, after an
/// error. Errors: FileError at the start when the file cannot be written; later this is said only.
[[nodiscard]] std::unique_ptr<TrainHook> make_trace_hook();

/// Writes `record_load`, every iteration of the workers as it was reported, for `cohort predictor`:
/// at the end, after a signal, after an error. Errors: FileError as above.
[[nodiscard]] std::unique_ptr<TrainHook> make_load_hook();

/// Writes event files of TensorBoard into the folder `tensorboard` of `out`: what is in `train` and
/// `evaluation` lines over samples applied, changes of mode and workers as text. Errors: FileError
/// at the start when there can be no file; later this is said only.
[[nodiscard]] std::unique_ptr<TrainHook> make_tensorboard_hook();

/// Shows the newest figures to Prometheus, in `metrics_file` and on `metrics_port`. Errors:
/// FileError, UsageError at the start when file or port cannot be used; later this is said only.
[[nodiscard]] std::unique_ptr<TrainHook> make_prometheus_hook();

/// Writes `timeline`, what every worker did when, for Perfetto and chrome://tracing: at the end,
/// after a signal, after an error. Errors: FileError as for make_trace_hook().
[[nodiscard]] std::unique_ptr<TrainHook> make_timeline_hook();

/// Shows progress: one rewritten line on a terminal, else a plain line every `log_every_s`.
/// @param terminal true: `write` gets lines to draw over the last one, several times a second
/// @param write  receives each line
[[nodiscard]] std::unique_ptr<TrainHook> make_progress_hook(
    bool terminal, std::function<void(const std::string&)> write);

}  // namespace cohort
