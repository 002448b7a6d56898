"""What real code takes on a machine, and why. x86 in 64-bit mode.

Reading order:

- `errors`: `AnalysisError`;
- `machines`: the machine by its name, measured or modelled (`open_machine`);
- `markers`: the region that is marked as OSACA, IACA and LLVM-MCA do;
- `code`: bytes to instructions of a machine; what it knows nothing of is named (`CodeReader`, `Block`);
- `effects`: what an instruction reads and writes, and the cycles between; its µops by port set;
- `addresses`: which store a load reads from: addresses followed through arithmetic and over iterations;
- `dependencies`: the slowest cycle of dependencies through iterations;
- `front_end`: the bounds of predecoder, decoders, µop cache, loop buffer;
- `bounds`: all bounds of a block, whose largest is the prediction (`bounds_of`);
- `whatif`: what would make the code faster;
- `simulation`: the same code on the simulated core: cycles, waits, timeline, changes (`Study`);
- `intervals`: how far the data leave a prediction open;
- `loads`: how busy each port is, with the best and with an even distribution;
- `paths`: the critical path of an iteration, and all dependencies from iteration to iteration;
- `explanation`: a prediction with all that follows from it (`PredictionFacts`);
- `flow`: the control-flow graph of a function, its loops, and the ways through them;
- `loops`: what a loop of several blocks takes;
- `report`: a prediction for people, and for programs;
- `retirement`: at which instruction an interrupt catches a loop;
- `aarch64`: kernels for AArch64, by the models of an installed LLVM;
- `prediction`: one call from code to a prediction (`Tools.predict`).
"""
