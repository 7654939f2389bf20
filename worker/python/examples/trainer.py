"""Trains a small language model on this file, with the Trainer of Hugging Face Transformers:

    python -m capstan run --num_workers=2 --worker_command="python trainer.py"
"""

import argparse
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

from capstan.integrations.transformers import Trainer

LENGTH = 32


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=4, help="of a worker")
    parser.add_argument("--output_dir", default="trainer")
    flags = parser.parse_args()

    text = list(pathlib.Path(__file__).read_bytes())
    data = [{"input_ids": text[begin:begin + LENGTH], "labels": text[begin:begin + LENGTH]}
            for begin in range(0, len(text) - LENGTH, LENGTH)]
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2))
    arguments = TrainingArguments(
        output_dir=flags.output_dir, num_train_epochs=flags.epochs, learning_rate=3e-3,
        per_device_train_batch_size=flags.batch_size, dataloader_drop_last=True, use_cpu=True,
        train_sampling_strategy="sequential", save_strategy="no", report_to=[])
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:32])
    trainer.train()
    print(f"loss {trainer.evaluate()['eval_loss']:.3f}")
    trainer.save_model()


if __name__ == "__main__":
    main()
