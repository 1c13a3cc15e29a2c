#pragma once

#include "cohort/data/import.hpp"

#include <string>
#include <vector>

namespace cohort {

/// The files to import and their format.
struct ImportSelection {
    ImportFormat format = ImportFormat::kAuto;
    std::vector<std::string> files;
};

/// Settles files and format of `options`. In a folder a file belongs to a format by its name
/// (data_batch_1.bin, train-images-idx3-ubyte.gz, x.npy, ...) whatever it holds, so that a damaged
/// one is refused when it is read; a file of another name by its first bytes. Files of no or
/// another format are passed over, which the log says.
/// Errors: FileError for an input that does not exist, a folder without files of the format or
/// without a part of a known set; UsageError for several formats.
[[nodiscard]] ImportSelection select_import_files(const ImportOptions& options);

}  // namespace cohort
